"""Training: `train(recipe, workdir)`; needs the packages of requirements/train.txt."""
