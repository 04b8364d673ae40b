"""How a checkpoint stores its weights: formats, scales, and which modules they are for.

`quantization` finds the format and reads it, a module for each family of formats has its details,
and `storage` is the answer: thousandths of a bit per parameter, module by module.
"""
