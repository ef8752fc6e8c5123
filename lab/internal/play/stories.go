package play

// Story is a world with something to see in it.
type Story struct {
	Name  string   `json:"name"`
	Title string   `json:"title"`
	Text  []string `json:"text"` // paragraphs; what they claim is what its World shows
	Try   []Move   `json:"try"`  // what to move, and see
	World World    `json:"world"`
}

// Move is a change of a story's world that shows something.
type Move struct {
	Says  string `json:"says"`
	World World  `json:"world"`
}

// Stories returns all stories, in the order in which to tell them.
func Stories() []Story { return []Story{} }
