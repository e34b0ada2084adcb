/** Images and files that a provider rejects, as opposed to requests that are invalid for another reason. */
import { assert, describe, it } from "@effect/vitest"
import { Classifier } from "@outlast/agent"

const refused: ReadonlyArray<readonly [status: number, message: string, source: string]> = [
  [400, "Could not process image", "anthropics/claude-code#25592"],
  [
    400,
    "messages.11.content.8.image.source.base64.data: Image format image/png not supported",
    "anthropics/claude-code#42399"
  ],
  [
    400,
    "messages.1.content.1.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
    "Anthropic"
  ],
  [
    400,
    "messages.34.content.1.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
    "Anthropic"
  ],
  [400, "Invalid PNG image", "NousResearch/hermes-agent#69078"],
  [400, "base64 string of provided image cannot be decoded", "NousResearch/hermes-agent#69078"],
  [
    400,
    "Failed to deserialize the JSON body into the target type: messages[13]: unknown variant `image_url`, expected `text` at line 1 column 6290571",
    "yilewang/llm-for-zotero#143"
  ],
  [400, "Model do not support image input. Request id: 0217", "anomalyco/opencode#47994"],
  [404, "No endpoints found that support image input", "OpenRouter"],
  [400, "The PDF specified was not valid.", "Anthropic"],
  [400, "this model does not support image input", "anomalyco/opencode#40632"]
]

const others: ReadonlyArray<readonly [status: number, message: string]> = [
  [400, "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"],
  [400, "Your image was rejected by the safety system: it cannot be processed under our policy"],
  [400, "messages.2.content: Input should be a valid string"],
  [429, "Too many images: rate limit of 10 images per minute exceeded"],
  [500, "Failed to process image"],
  [400, "This model does not support tools"],
  [400, "This endpoint's maximum context length is 8192 tokens. The image input is too large: 9000 tokens"],
  [400, "Invalid value: 'image'. Supported values are: 'text', 'json_object'"]
]

const isMediaRefused = (statusCode: number, message: string): boolean => {
  const body = JSON.stringify({ error: { message } })
  const error = Object.assign(new Error(message), {
    name: "AI_APICallError",
    statusCode,
    responseBody: body,
    responseHeaders: {}
  })
  const { reason } = Classifier.failureOf(error)
  return reason._tag === "Format" && reason.media === true
}

describe("a rejected image or file", () => {
  for (const [status, message, source] of refused) {
    it(`is recognised in: ${message.slice(0, 70)} (${source})`, () => {
      assert.isTrue(isMediaRefused(status, message))
    })
  }
  for (const [status, message] of others) {
    it(`is not seen in: ${status} ${message.slice(0, 70)}`, () => {
      assert.isFalse(isMediaRefused(status, message))
    })
  }
})
