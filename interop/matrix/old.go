package main

import "context"

func (s *session) oldProducers(ctx context.Context) {}
