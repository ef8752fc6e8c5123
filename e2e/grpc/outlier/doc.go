// Package outlier has no code: its test plays one bad server of three under grpc-go's round_robin, with its outlier detection, and
// under gabion, in virtual time. It is a package of its own since outlier detection comes with grpc-go's xDS.
package outlier
