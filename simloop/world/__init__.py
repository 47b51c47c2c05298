"""The surroundings of an agent: model, tools, files, user."""
