package txn

// AppendCommand writes a command behind dst.
func AppendCommand(dst []byte, c Command) []byte { return c.appendTo(dst) }

// DecodeCommand reads what AppendCommand wrote. Anything else is a CodeCorruption error. The result shares no memory with b.
func DecodeCommand(b []byte) (Command, error) { panic("todo") }

func (c *Update) appendTo(dst []byte) []byte        { panic("todo") }
func (c *Confirm) appendTo(dst []byte) []byte       { panic("todo") }
func (c *StreamDeleted) appendTo(dst []byte) []byte { panic("todo") }
func (c *Forget) appendTo(dst []byte) []byte        { panic("todo") }
