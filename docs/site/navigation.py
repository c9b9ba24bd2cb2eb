"""Which page stands where: the file in the repository, its address on the site, its section."""

from __future__ import annotations

HOME = "docs/README.md"

# A page without a file is made from the code at build time (:mod:`docs.site.generated`).
SECTIONS: dict[str, dict[str, str]] = {
    "Start": {
        "docs/QUICK_START.md": "quick-start",
        "docs/CONCEPTS.md": "concepts",
        "docs/HOW_IT_WORKS.md": "how-it-works",
    },
    "How to": {
        "docs/PHASES.md": "phases",
        "docs/DID_IT_PAY.md": "did-it-pay",
        "docs/CARDS.md": "cards",
        "docs/SEARCH.md": "find-settings",  # search.html is the generator's own
        "docs/SLURM.md": "cluster",
        "docs/IN_CI.md": "in-ci",
        "docs/AGENT_SKILL.md": "coding-agents",
        "docs/DASHBOARD.md": "dashboard",
        "examples/fleet/README.md": "fleet",
        "docs/TRAINER.md": "trainer",
        "docs/QUESTIONS.md": "questions",
    },
    "In a framework": {
        "docs/INTEGRATIONS.md": "frameworks",
        "docs/frameworks/HUGGING_FACE.md": "frameworks/hugging-face",
        "docs/frameworks/LIGHTNING.md": "frameworks/lightning",
        "docs/frameworks/ACCELERATE.md": "frameworks/accelerate",
        "docs/frameworks/KERAS.md": "frameworks/keras",
        "docs/frameworks/RAY_TRAIN.md": "frameworks/ray-train",
        "docs/frameworks/SKORCH.md": "frameworks/skorch",
        "docs/frameworks/STABLE_BASELINES3.md": "frameworks/stable-baselines3",
        "docs/frameworks/OWN_LOOP.md": "frameworks/own-loop",
        "docs/frameworks/WITHOUT_TORCH.md": "frameworks/without-torch",
        "docs/frameworks/NOTEBOOKS.md": "frameworks/notebooks",
    },
    "How sure, and what it costs": {
        "docs/COST_AND_ACCURACY.md": "cost-and-accuracy",
        "docs/COMPARISON.md": "comparison",
        "probe/attribution/METHOD.md": "method-joules",
        "probe/compare/METHOD.md": "method-gains",
        "docs/KNOWN_LIMITS.md": "known-limits",
    },
    "Reference": {
        "(commands)": "reference/commands",
        "(python)": "reference/python",
        "(schema)": "reference/report-json",
        "(other json)": "reference/other-json",
        "docs/ENVIRONMENT.md": "reference/environment",
        "exporters/README.md": "reference/exporters",
        "optimizers/README.md": "reference/techniques",
        "optimizers/PAPER.md": "reference/paper",
        "docs/GLOSSARY.md": "reference/glossary",
    },
    "Extend": {
        "docs/EXTEND.md": "extend",
        "CONTRIBUTING.md": "contributing",
        "probe/ARCHITECTURE.md": "architecture",
        "tests/README.md": "tests",
    },
    "Project": {
        "docs/STABILITY.md": "stability",
        "SECURITY.md": "security",
        "docs/RELEASE.md": "release",
        "CHANGELOG.md": "changelog",
    },
}

PAGES: dict[str, str] = {HOME: "index"} | {
    file: address for pages in SECTIONS.values() for file, address in pages.items()
}
# In the navigation, where the page's own title says too little beside the others.
TITLES = {
    "coding-agents": "For coding agents",
    "reference/exporters": "Exporters and metrics",
    "reference/techniques": "Techniques",
}
# A link to the first of these, which is not on the site, leads to the second.
INSTEAD = {"README.md": HOME}
