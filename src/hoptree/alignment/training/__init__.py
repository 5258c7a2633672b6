"""Training LoRA adapters on chat sets, on one processor or several, so that a killed training goes on where it was."""
