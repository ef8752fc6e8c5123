//go:build !windows

package classify

import "github.com/gabion-go/gabion/policy"

// vague is what a failed lookup of a name is when package net doesn't say.
const vague = policy.ClassUnclassified
