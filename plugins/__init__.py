"""The methods of the catalogue, one module a family. Each is an entry point in setup.cfg, loaded like anyone else's."""
