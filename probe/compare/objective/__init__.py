"""What training cost, by the paper's objective, and which configurations no other beats (eq. 1–3).

    C = w₁ T/T₀ + w₂ M/M₀ + w₃ E/E₀   subject to  L ≤ L_target, M ≤ M_budget, ‖∇L‖ ≤ ε

Each term is divided by the baseline's mean, or seconds and joules could not be added.
"""
