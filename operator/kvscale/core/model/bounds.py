"""The largest numbers that a config may state; they bound the work that a bad one makes."""

MOST_LAYERS = 512
"""Four times the deepest model known (Llama-3.1-405B: 126)."""

MOST_WIDTH = 1 << 20
"""Elements of any dimension: the model's width, a feed-forward's, a state's."""

MOST_HEADS = 1 << 14
MOST_HEAD_DIM = 1 << 14
MOST_TAPS = 1 << 10
"""Of a convolution."""

MOST_VOCABULARY = 1 << 26
MOST_WINDOW = 1 << 31
