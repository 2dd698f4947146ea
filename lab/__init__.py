"""Tools that check the guarantees: the shipped commit machine on a simulated store, under every fault and interleaving."""
