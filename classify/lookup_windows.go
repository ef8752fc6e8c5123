package classify

import "github.com/gabion-go/gabion/policy"

// vague is what a failed lookup of a name is when package net doesn't say. On
// Windows it says "no such host" and of all else nothing: not that no name server
// answered, and not that the failure is temporary.
const vague = policy.ClassNetwork
