"""The live page: joules and watts while the run goes on."""
