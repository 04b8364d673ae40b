"""What a model is: its shape, layer kinds and dtypes, read from a config.json or a preset.

`config_json` leads from a config to the `shape` that the capacity model takes: `architectures` say
what is peculiar to whom, `layers` and `states` what each layer keeps of the past, `weights` what it
is made of, `checkpoint` how that is stored. `fields` and `bounds` keep a bad config harmless.
"""
