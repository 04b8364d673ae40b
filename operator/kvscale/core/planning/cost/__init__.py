"""What tokens cost, and what to change instead of scaling, each with its effect."""
