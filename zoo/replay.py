"""Running the layers below again on a new input; part of the public interface."""

from zoo.model.replay import add_attention, add_layers, attention_again, layers_again

__all__ = ["add_attention", "add_layers", "attention_again", "layers_again"]
