"""Vision towers: what a model that reads images weighs besides its text model."""
