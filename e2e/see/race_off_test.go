//go:build !race

package see_test

const raced = false
