"""What a vehicle is: models as data, powertrain, heat, brakes, and how they do in published cycles."""
