"""Fast CPU programs for operations of the models. The blocks do not know about them."""
