"""Layers that keep a state of fixed size: Mamba, delta nets, linear attention, convolutions.

Each mixer is one class: its dimensions, the state that it keeps for a sequence, and the parameters
that it is made of. `reading` finds the mixer of a config.
"""
