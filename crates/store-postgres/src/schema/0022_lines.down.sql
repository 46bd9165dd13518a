drop sequence windlass.line_seq;
