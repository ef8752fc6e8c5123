// Package behaviour tests what a caller of package gabion sees: calls, errors, events, slots, keys,
// reloads. It uses the front door only. Tests that need unexported code stand beside that code.
package behaviour
