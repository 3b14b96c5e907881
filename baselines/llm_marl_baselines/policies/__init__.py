"""Who answers: language models, and callables that stand for them."""
