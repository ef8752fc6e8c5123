package bulkhead

// OpenShelves does what enough lost races do.
func (b *Bulkhead) OpenShelves() {
	b.lock()
	b.openShelves()
	b.mu.Unlock()
}

// Shelves returns how many shelves are open.
func (b *Bulkhead) Shelves() int {
	if r := b.rack.Load(); r != nil {
		return len(*r)
	}
	return 0
}
