"""What can be asked of a model that tags."""

PATHS = 'paths'                # the best tags
CONFIDENCES = 'confidences'    # these, and what the posteriors say of them
NBEST = 'nbest'                # the n best taggings
EMISSIONS = 'emissions'        # score and history, for a walk back elsewhere; of exported graphs

MOST_NBEST = 1000              # taggings of a sentence that can be asked for; memory and time grow with them
