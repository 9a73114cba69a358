"""What rendezvous routing costs and saves: the same workload under every routing, on brokers of the simulator."""
