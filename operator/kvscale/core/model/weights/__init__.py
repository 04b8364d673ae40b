"""What a model weighs: every parameter, by how it is stored, split and placed.

`dimensions` reads the numbers of a config, `plans` say what each layer is made of, `attention` and
`feed_forward` what a block of it is made of, and `groups` meets them with the checkpoint's formats.
"""
