"""Training one network: the inner loop (Algorithm 1), its losses, pseudo-labels (Eq. 1) and their selection (Eq. 2)."""
