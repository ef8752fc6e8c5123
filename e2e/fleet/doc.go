// Package fleet measures fifty processes that share a rate limit over a real store: how much of the limit
// they use, by how much they exceed it in any second, and how equal equals are, while demand moves, the store is
// gone, processes are stopped, killed and started. A witness outside of the fleet counts what they send.
package fleet
