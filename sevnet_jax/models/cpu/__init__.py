"""How CPUs compute what the models ask for; the blocks do not know of it."""
