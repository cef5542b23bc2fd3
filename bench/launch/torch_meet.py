"""The peer of `lockstep bench launch --against torch`: a rank that meets the others once over Gloo.

Its place comes from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. It adds up ones over all ranks and
says how many they were.
"""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
ones = torch.ones(1)
dist.all_reduce(ones)
print(f"met {ones.item():g}", flush=True)
dist.destroy_process_group()
