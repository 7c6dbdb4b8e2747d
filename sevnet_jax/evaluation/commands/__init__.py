"""The commands of eval.py: each module has HELP, add_arguments(parser), run(args)."""
