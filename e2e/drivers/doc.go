// Package drivers holds what package classify says of drivers that it does not import
// against the drivers themselves, and their servers where there are any here.
package drivers
