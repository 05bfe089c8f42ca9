package main

import "context"

func (s *session) tools(ctx context.Context) {}
