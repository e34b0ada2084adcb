// What the page knows: the last state of the program, and the token of the operator.

/** @typedef {import("../PageState.ts").State} State */

export const page = {
  token: "",
  /** @type {State | undefined} */
  state: undefined,
  /** What this clock is behind that of the server, in milliseconds. */
  offset: 0,
  now: () => Date.now() + page.offset,
  hasActions: () => page.token !== "" && (page.state?.actions.length ?? 0) > 0
}
