// Package anchor reproduces published results about retries, queues and load.
//
// Each anchor is a model of an experiment whose outcome is known: measured by its
// author, or exact. If the lab's engine, draws or policies were wrong, these would
// be the first to say so. [Verify] compares what is measured here with what was
// published; [Run] runs one model at parameters of the caller's choice.
//
// Where a result is about a mechanism that gabion has, gabion's own code decides:
// package policy, or backoff and budget alone where the source has no more. What
// gabion lacks on purpose or does not have yet is written here as a reference model,
// and its description says so.
package anchor
