"""What each layer of a model keeps of the past: from a config to groups of equal layers.

`plan` says how each layer looks back, `heads` with how many heads of which size, `indexers` which
layers pick tokens; `groups` puts the answers together for the KV arithmetic, and the weights are
counted from the same answers. `unsupported` refuses layers that have no rule.
"""
