/**
 * The error of a tool call that did not run. The AI SDK gives the model its text as the result.
 */
export class Refusal extends Error {
  // The AI SDK writes the name before the message.
  override readonly name = ""
}
