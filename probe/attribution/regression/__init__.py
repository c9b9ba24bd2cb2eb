"""The regression of energy on phases: design matrix, block sums, solution."""
