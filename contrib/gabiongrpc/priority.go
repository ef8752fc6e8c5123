package gabiongrpc

// MetadataPriority says how much a call matters, from hop to hop: low, normal or high.
// Anything else means normal, as if it were absent. Clients send it to internal
// dependencies only.
const MetadataPriority = "x-request-priority"
