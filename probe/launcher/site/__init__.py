"""The folder that ``probe run`` puts on PYTHONPATH; its ``sitecustomize`` arms the script."""
