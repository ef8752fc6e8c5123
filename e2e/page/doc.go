// Package page tests gabion's live page in a real browser, on programs that call real
// servers over the loopback.
package page
