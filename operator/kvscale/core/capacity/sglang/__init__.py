"""What one SGLang engine holds: cells of tokens, pools of windows and states, the ceiling."""
