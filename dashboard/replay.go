package dashboard

// replayed says where a replay is.
type replayed struct {
	Done  bool    `json:"done"`
	Speed float64 `json:"speed"`
}
