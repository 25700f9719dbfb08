#pragma once

// What a test can ask of the ranks behind nccl.h.
namespace cuda_host {

// From now on, each communicator of this rank tells of an error beside its calls; -1: none does.
void break_nccl(int rank);
// Communicators are not made until this is called with false.
void hold_nccl_back(bool held);
int living_communicators();

}  // namespace cuda_host
