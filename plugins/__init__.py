"""The methods of the catalogue, one module per family. Each is an entry point in setup.cfg, loaded like any other one."""
