"""The proof, shipped: the commit machine as it is, on a simulated store, under every fault and every interleaving."""
