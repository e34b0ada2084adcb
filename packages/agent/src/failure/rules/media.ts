/**
 * Rules on images and files that a provider rejects: they are unreadable, too large or too many, or the model does
 * not accept any. The request would be valid without them.
 */
import { isRefusal, refusedMedia } from "../facts/About.ts"
import * as Rule from "./Rule.ts"

const what =
  "(image|images|image_url|png|jpeg|jpg|webp|gif|picture|pdf|document|audio|video|media|multimodal|file input)"

export const media: ReadonlyArray<Rule.Rule> = [
  Rule.code({
    id: "format/media-code",
    why: "OpenAI's codes for images that cannot be loaded or read.",
    codes: [
      "invalid_image",
      "invalid_image_format",
      "invalid_image_url",
      "invalid_base64_image",
      "image_parse_error",
      "image_too_large",
      "image_too_small",
      "image_file_too_large",
      "unsupported_image_media_type",
      "empty_image_file",
      "failed_to_download_image",
      "image_file_not_found"
    ],
    when: isRefusal,
    reason: refusedMedia
  }),
  Rule.text({
    id: "format/media",
    why: "The error calls an image or a file of the request unreadable, too large, too many or unsupported.",
    phrases: [
      `(invalid|corrupt|corrupted|unsupported|malformed|bad|unprocessable|too many) (base64 |base64-encoded |input |inline |)${what}`,
      `${what} (size|dimensions|dimension|data|file|pixels|)…(exceeds|exceed|too large|too small|larger than|maximum|too big)`,
      `${what} (exceeds|exceed|is too large|is too small|is larger|is too big)`,
      "support (image|images|vision|audio|video|pdf|file|multimodal) (input|inputs)",
      `${what} (input |)(modality|modalities|capability|capabilities) (is|are) not`,
      `${what} (payload|payloads|count)…(exceeds|exceed|above|over|limit|maximum)`,
      `value for ${what}`
    ],
    unless: [
      "(safety|policy|policies|moderation|content filter|generate|generation|generated)",
      "(context length|context window|tokens)"
    ],
    when: isRefusal,
    reason: refusedMedia
  })
]
