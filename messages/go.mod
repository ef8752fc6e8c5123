module github.com/gabion-go/gabion/messages

go 1.26.0

replace github.com/gabion-go/gabion => ..

require github.com/gabion-go/gabion v0.0.0
